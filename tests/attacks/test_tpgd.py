"""T-PGD on tiny models of `transformers`; what it claims is judged from the strings."""

import numpy as np
import pytest
import torch
import transformers
from tests.model.test_hugging_face import KEEP, TABLE, TEXTS, config, neighbours, tokenizer

import durometer as du
from durometer.architectures.text import TextCNN
from durometer.attacks.sequences.tpgd import _added, _entry, _head, _Reading
from durometer.spaces import token_ids

SPACE = du.Text(du.Synonyms(TABLE), most=0.5, keep=KEEP)


@pytest.fixture(scope="module")
def both():
    """A classifier, and a masked language model with the same encoder."""
    torch.manual_seed(3)
    victim = transformers.BertForSequenceClassification(config()).eval()
    language = transformers.BertForMaskedLM(config()).eval()
    language.bert.load_state_dict(victim.bert.state_dict(), strict=False)
    return victim, language


def own(victim, texts):
    with torch.no_grad():
        return torch.cat([victim(**tokenizer()(t, return_tensors="pt")).logits for t in texts])


def attack(language, **more):
    return du.TPGD(language, tokenizer(), **{"segments": 6, "steps": 8, **more})


def test_claims_are_sentences_that_may_be_written_and_flip_the_answer(both):
    victim, language = both
    y = own(victim, TEXTS).argmax(1)
    model = du.wrap(victim, tokenizer=tokenizer())
    report = du.evaluate(
        model, du.Dataset(TEXTS, y.numpy()), space=SPACE, attack=attack(language), progress=False
    )
    found = list(report.adversarial)
    reachable = 0
    for text, other, label, won in zip(TEXTS, found, y, report.table["success"], strict=True):
        allowed = list(neighbours(text, TABLE, 0.5))
        reachable += bool((own(victim, allowed).argmax(1) != label).any())
        if won:
            assert other in allowed and int(own(victim, [other]).argmax()) != int(label)
    assert reachable >= report.table["success"].sum() > reachable / 2
    assert report.table["backwards"].max() == 6 * 8 and report.table["backwards"].min() > 0


def test_of_all_successes_the_most_similar_is_kept(both):
    victim, language = both
    y = own(victim, TEXTS).argmax(1)
    model = du.wrap(victim, tokenizer=tokenizer())

    def same(first, second):  # the share of words that stay
        pairs = zip(first, second, strict=True)
        return [np.mean([a == b for a, b in zip(f.split(" "), s.split(" "), strict=True)])
                for f, s in pairs]  # fmt: skip

    kept = []
    for stop in (0.0, 2.0):  # the first success will do; nothing ever does
        made = attack(language, similarity=same, stop=stop)
        report = du.evaluate(
            model, du.Dataset(TEXTS, y.numpy()), space=SPACE, attack=made, progress=False
        )
        kept.append(report.table["distance"][report.table["success"]])
    assert (kept[1] <= kept[0]).all() and kept[1].sum() < kept[0].sum()


def test_the_head_reads_the_likeliest_candidates_within_the_budget(both):
    _, language = both
    region = SPACE.around(token_ids.encode(TEXTS))
    reading = _Reading(region, tokenizer(), _head(attack(language), language))
    torch.manual_seed(0)
    said = torch.randn(*reading.word.shape, 21)
    got = token_ids.sentences(region.written(reading.slots(said)))
    cut = tokenizer()
    for i, text in enumerate(TEXTS):
        leads = {}
        first, at = [], 1  # behind [CLS]
        for word in text.split(" "):
            first.append(at)
            at += len(cut(word, add_special_tokens=False)["input_ids"])
        for k, word in enumerate(text.split(" ")):
            pieces = {w: cut(w, add_special_tokens=False)["input_ids"]
                      for w in (word, *TABLE.get(word, ()))}  # fmt: skip
            mean = {w: float(said[i, first[k], ids].mean()) for w, ids in pieces.items()}
            best = max(mean, key=mean.get)
            if word not in KEEP and mean[best] > mean[word]:
                leads[k] = (mean[best] - mean[word], best)
        most = max(1, int(0.5 * len(text.split(" "))))
        expected = text.split(" ")
        for k in sorted(leads, key=lambda k: -leads[k][0])[:most]:
            expected[k] = leads[k][1]
        assert got[i] == " ".join(expected)


def test_only_what_enters_the_first_attention_is_moved(both):
    victim, language = both
    entry = _entry(attack(language), victim)
    assert entry is victim.bert.encoder.layer[0].attention.self
    batch = tokenizer()(TEXTS[:1], return_tensors="pt")
    z = torch.ones(1, batch["input_ids"].shape[1], 16)
    with torch.no_grad():
        plain = victim(**batch, output_hidden_states=True)
        with _added(entry, z):
            moved = victim(**batch, output_hidden_states=True)
        again = victim(**batch)
    assert torch.equal(plain.hidden_states[0], moved.hidden_states[0])
    assert not torch.allclose(plain.hidden_states[1], moved.hidden_states[1])
    assert torch.equal(plain.logits, again.logits)


def test_models_without_such_a_head_or_layer_are_refused(both):
    victim, language = both
    data = du.Dataset(TEXTS, own(victim, TEXTS).argmax(1).numpy())
    model = du.wrap(victim, tokenizer=tokenizer())

    def run(made, of=model, rows=data):
        du.evaluate(of, rows, space=SPACE, attack=made, progress=False)

    with pytest.raises(du.Unsupported, match="head"):
        run(attack(victim.bert))
    other = config()
    other.hidden_size = 8
    with pytest.raises(du.Unsupported, match="16 numbers"):
        run(attack(transformers.BertForMaskedLM(other)))
    net = TextCNN(classes=2).eval()
    with torch.no_grad():
        y = net(token_ids.encode(TEXTS)).argmax(1).numpy()
    with pytest.raises(du.Unsupported, match="attention"):
        run(attack(language), net, du.Dataset(TEXTS, y))
