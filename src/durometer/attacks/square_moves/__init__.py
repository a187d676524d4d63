"""What is behind Square: its moves, in torch and compiled."""
