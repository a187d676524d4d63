"""Running: progress, configuration files, stores and executors."""
