"""The linear mixed model: decomposition, null model, association."""
