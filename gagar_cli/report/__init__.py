"""Reports as one HTML file that needs nothing else: no script, no request, every text escaped."""
