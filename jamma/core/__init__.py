"""Policy that every other module shares: errors, memory, threads, progress, telemetry. Pure Python."""
