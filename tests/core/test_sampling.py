from gagar_cli.core.sampling import draw

NAMES = [f"task-{number}" for number in range(200)]


def test_a_draw_repeats_and_does_not_heed_the_order_of_the_names():
    assert draw(NAMES, 30, seed=1) == draw(reversed(NAMES), 30, seed=1)
    assert draw(NAMES, 30, seed=1) != draw(NAMES, 30, seed=2)
    assert draw(NAMES, 30, seed=1, salt="x") != draw(NAMES, 30, seed=1)


def test_one_more_name_displaces_at_most_one():
    before, after = draw(NAMES, 30, seed=1), draw([*NAMES, "task-new"], 30, seed=1)
    assert len(set(before) - set(after)) <= 1


def test_every_name_is_drawn_about_as_often():
    counts = dict.fromkeys(NAMES, 0)
    for seed in range(300):
        for name in draw(NAMES, 20, seed=seed):
            counts[name] += 1
    # 300 draws of a tenth: 30 each, standard deviation 5.2.
    assert min(counts.values()) > 10
    assert max(counts.values()) < 55


def test_all_names_come_back_where_none_is_to_be_left_out():
    assert sorted(draw(["b", "a", "b"], None, seed=0)) == ["a", "b"]
