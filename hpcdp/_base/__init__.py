"""What any program needs: files, folders, processes, signals, threads, the words of errors."""
