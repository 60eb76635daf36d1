"""The bench of planted bugs: a toy compiler, wrong and legal changes to it, and the judge's score.

python -m tests.planted --models 300
"""
