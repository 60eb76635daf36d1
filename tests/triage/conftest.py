def pytest_addoption(parser):
    parser.addoption("--update", action="store_true", help="rewrite the golden signatures")
