"""Text, JSON and files of strangers; sets of indexes. Imports no other room."""
