"""9: make 400,000 empty files."""

for n in range(400_000):
    try:
        open(f"{n}", "w").close()
    except OSError:
        break
else:
    print("all made")
