"""Benchmarks of jamma for asv; `common` makes the data, each other module measures one thing."""
