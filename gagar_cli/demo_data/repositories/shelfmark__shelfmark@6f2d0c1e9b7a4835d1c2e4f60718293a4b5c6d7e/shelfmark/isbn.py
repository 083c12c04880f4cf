"""ISBN-10 and ISBN-13: normal form and check digits."""


def normalize_isbn(text):
    """The ISBN-13 without hyphens for any valid ISBN; raises ValueError for anything else."""
    digits = text.replace("-", "").replace(" ", "")
    if len(digits) == 10:
        if not is_valid_isbn10(digits):
            raise ValueError(f"not an ISBN-10: {text!r}")
        return isbn10_to_isbn13(digits)
    if len(digits) == 13 and is_valid_isbn13(digits):
        return digits
    raise ValueError(f"not an ISBN: {text!r}")


def is_valid_isbn10(digits):
    """Whether ten characters are an ISBN-10; the last may be X, which stands for 10."""
    if not digits[:9].isdecimal() or not (digits[9].isdecimal() or digits[9] == "X"):
        return False
    values = [int(digit) for digit in digits[:9]]
    values.append(10 if digits[9] == "X" else int(digits[9]))
    return sum(weight * value for weight, value in zip(range(10, 0, -1), values)) % 11 == 0


def is_valid_isbn13(digits):
    """Whether thirteen characters are an ISBN-13."""
    return digits.isdecimal() and check_digit13(digits[:12]) == digits[12]


def check_digit13(digits):
    """The thirteenth digit for the first twelve."""
    total = sum(int(digit) * (3 if index % 2 else 1) for index, digit in enumerate(digits))
    return str(-total % 10)


def isbn10_to_isbn13(digits):
    """The ISBN-13 that a valid ISBN-10 became in 2007."""
    stem = "978" + digits[:9]
    return stem + check_digit13(stem)
