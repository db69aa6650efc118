"""Ray is left out: what Miles' object store module imports of it, and does not use as long as it is given a host name."""
