"""durometer inside other tools: pytest, MLflow, model cards."""
