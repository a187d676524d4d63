"""`import durometer` must stay light: what is heavy is loaded when it is used, extras only if
asked."""

import subprocess
import sys

HEAVY = ("torch", "pandas", "sklearn", "scipy", "pyarrow", "rich")
EXTRAS = ("xgboost", "lightgbm", "catboost", "onnxruntime", "ray")


def run(code):
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_import_durometer_loads_nothing_heavy():
    assert run(f"import durometer, sys; print(*[m for m in {HEAVY} if m in sys.modules])") == []


def test_naming_the_datasets_loads_no_torch():
    assert (
        run("import durometer, sys; durometer.datasets.mnist; print(*{'torch'} & set(sys.modules))")
        == []
    )


def test_the_core_works_where_no_extra_is_installed():
    code = f"""
import sys
sys.modules.update(dict.fromkeys({EXTRAS}))  # None: importing it raises ImportError
import durometer
for name in dir(durometer):
    getattr(durometer, name)
print(len(dir(durometer)))
"""
    assert int(run(code)[0]) > 10


def test_a_wrong_name_is_an_attribute_error_that_helps():
    code = (
        "import durometer\ntry:\n    durometer.evalute\nexcept AttributeError as e:\n    print(e)"
    )
    assert "evaluate" in " ".join(run(code))


def test_evaluate_is_the_verb_whoever_loaded_its_module_first():
    code = "from durometer._evaluate import evaluate as f; import durometer as d; "
    code += "print(d.evaluate is f)"
    assert run(code) == ["True"]
