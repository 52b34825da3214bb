def test_version():
    import jamma

    assert jamma.__version__
