"""Models of `transformers`: tiny random ones, made from a config and read back from a folder."""

import numpy as np
import pytest
import torch
import transformers
from tests.oracles.sentences import KEEP, neighbours
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import durometer as du
from durometer.core.streams import Stream
from durometer.spaces import token_ids
from durometer.spaces.discrete import RelaxedTokens

TABLE = {"good": ("fine", "great"), "film": ("movie", "flick"), "dull": ("boring",)}
TEXTS = ["a good film", "a dull film , not good", "good", "the film is dull", "great , good film"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "is", "not", "good", "fine",
          "great", "film", "mov", "##ie", "fl", "##ick", "dull", "bor", "##ing", ","]  # fmt: skip


def tokenizer():
    table = {piece: i for i, piece in enumerate(PIECES)}
    made = Tokenizer(models.WordPiece(table, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip


def config(**more):
    return transformers.BertConfig(
        vocab_size=len(PIECES), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=32, initializer_range=0.6, **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(3)
    place = tmp_path_factory.mktemp("classifier")
    labels = {0: "bad", 1: "good", 2: "none"}
    transformers.BertForSequenceClassification(config(id2label=labels)).save_pretrained(place)
    tokenizer().save_pretrained(place)
    return place


def own_answers(folder, texts):
    """What the model says to strings, asked as its documentation does, one by one."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    cut = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        return torch.cat([model(**cut(t, return_tensors="pt")).logits for t in texts])


def wrapped(folder):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    return du.wrap(model, tokenizer=transformers.AutoTokenizer.from_pretrained(folder))


def test_the_answers_are_the_models_own_and_gradients_leave_them_alone(folder):
    model, x = wrapped(folder), token_ids.encode(TEXTS)
    own = own_answers(folder, TEXTS)
    assert torch.allclose(model.logits(x), own, atol=1e-5)
    assert model.names == ("bad", "good", "none")
    region = du.Text(du.Synonyms(TABLE), most=0.5, keep=KEEP).around(x)
    rows = torch.arange(len(x))
    z = region.random(Stream(0, rows), rows).requires_grad_()
    with torch.enable_grad():
        chosen = region.decode(z)
        assert isinstance(chosen, RelaxedTokens)
        out = model.logits(chosen)
    assert torch.allclose(out, own_answers(folder, token_ids.sentences(chosen.detach())), atol=1e-5)
    (grad,) = torch.autograd.grad(out[:, 0].sum(), z)
    assert bool((grad.reshape(len(x), -1).abs().sum(1) > 0).all())


def test_the_gradient_of_a_weight_is_what_the_option_s_vector_would_add(folder):
    """To first order: along the mix of the embedding, by finite differences through the model."""
    model, x = wrapped(folder), token_ids.encode(["a good film"])
    region = du.Text(du.Synonyms(TABLE), most=1.0, keep=KEEP).around(x)
    z = region.origin.clone().requires_grad_()
    with torch.enable_grad():
        out = model.logits(region.decode(z))
    (grad,) = torch.autograd.grad(out[0, 1], z)
    place = 1  # "good" -> "great": one piece each
    slot = token_ids.tokens(region.options[0, place].nan_to_num(0)[None])[0].index("great")
    got = grad.reshape(1, 3, -1)[0, place]
    net = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval().double()
    ids = torch.tensor([[2, 5, 9, 12, 3]])
    table = net.get_input_embeddings().weight
    step = torch.zeros(1, 5, 16, dtype=torch.float64)
    step[0, 2] = (table[11] - table[9]).detach()

    def asked(h):
        with torch.no_grad():
            return net(inputs_embeds=table[ids] + h * step).logits[0, 1]

    slope = float(asked(1e-4) - asked(-1e-4)) / 2e-4
    assert float(got[slot] - got[0]) == pytest.approx(slope, rel=1e-3, abs=1e-5)


def test_attacks_break_what_all_sentences_say_can_be_broken(folder):
    y = own_answers(folder, TEXTS).argmax(1).numpy()
    space = du.Text(du.Synonyms(TABLE), most=0.5, keep=KEEP)
    report = du.evaluate(wrapped(folder), du.Dataset(TEXTS, y), space=space, progress=False)
    truth = [
        bool((own_answers(folder, sorted(neighbours(t, TABLE, 0.5))).argmax(1) != c).any())
        for t, c in zip(TEXTS, y, strict=True)
    ]
    assert report.table["verdict"].tolist() == ["broken" if b else "proven" for b in truth]
    assert sum(truth) > 0


def test_a_folder_in_a_file(folder, tmp_path):
    import pandas as pd

    from durometer.config import config as configuration

    y = own_answers(folder, TEXTS).argmax(1).numpy()
    pd.DataFrame({"text": TEXTS, "y": y}).to_csv(tmp_path / "data.csv", index=False)
    text = f"""
data = {{path = "data.csv", text = "text"}}
model.hugging_face = "{folder}"
space = {{type = "Text", candidates = {{type = "Typos"}}}}
"""
    (tmp_path / "run.toml").write_text(text)
    model, data = configuration.read(tmp_path / "run.toml").load()
    assert np.array_equal(model.logits(data.x).argmax(1).numpy(), y)
    (tmp_path / "run.toml").write_text(text.replace(str(folder), "nowhere"))
    with pytest.raises(du.DurometerError, match="nowhere"):
        configuration.read(tmp_path / "run.toml")


def test_a_masked_model_names_its_likeliest_words(tmp_path):
    torch.manual_seed(0)
    net = transformers.BertForMaskedLM(config()).eval()
    net.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    sentence = ["a", "good", "film"]
    found = du.Masked(net, tokenizer(), at_most=3)(sentence)
    with torch.no_grad():
        logits = net(torch.tensor([[2, 5, 4, 12, 3]])).logits[0, 2]
    order = [PIECES[i] for i in logits.argsort(descending=True)[:12].tolist()]
    plain = [w for w in order if w.isalpha() and w != "good"]
    assert found[1] == tuple(plain[:3])
    assert du.Masked(str(tmp_path), at_most=3)(sentence) == found


def test_slow_tokenisers_are_refused(folder):
    class Slow:
        is_fast = False

    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    with pytest.raises(du.Unsupported, match="fast"):
        du.wrap(model, tokenizer=Slow())


@pytest.mark.parametrize("attack", [du.Greedy(), du.APGD(3)])
def test_empty_long_and_odd_sentences_are_asked_as_the_model_itself_would_cut_them(folder, attack):
    """More words than the model has positions: what it cannot read is cut off, as by its maker."""
    odd = ["", "😀 good", "good " * 60 + "film", "xyzzy"]
    model = wrapped(folder)
    y = model.logits(token_ids.encode(odd)).argmax(1)
    space = du.Text(du.Synonyms(TABLE), most=0.1, keep=KEEP)
    report = du.evaluate(
        model, du.Dataset(odd, y.tolist()), space=space, attack=attack, progress=False
    )
    cut = transformers.AutoTokenizer.from_pretrained(folder, model_max_length=32)
    own = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    after = report.adversarial.tolist()
    with torch.no_grad():
        said = [int(own(**cut(t, return_tensors="pt", truncation=True)).logits.argmax())
                for t in after]  # fmt: skip
    assert (report.table["success"] == (np.array(said) != y.numpy())).all()


@pytest.mark.parametrize("kind, reads", [("bert", 32), ("roberta", 31)])
def test_roberta_reads_fewer_pieces_than_it_has_positions(kind, reads):
    from durometer.spaces.chunking import limit

    if kind == "bert":
        made = transformers.BertForSequenceClassification(config())
    else:
        made = transformers.RobertaForSequenceClassification(
            transformers.RobertaConfig(
                vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1,
                intermediate_size=8, max_position_embeddings=32, pad_token_id=0,
            )
        )  # fmt: skip
    assert limit(made, tokenizer()) == reads
    made.eval()(torch.full((1, reads), 5))  # as many as are said can be read, one more cannot
    with pytest.raises((RuntimeError, IndexError)):
        made.eval()(torch.full((1, reads + 1), 5))


def test_words_that_a_masked_model_cannot_read_have_no_candidates():
    net = transformers.BertForMaskedLM(config()).eval()
    found = du.Masked(net, tokenizer(), at_most=2)(["good"] * 40)
    assert len(found) == 40 and all(found[:30]) and not any(found[30:])
