"""Robust accuracy while a network is trained, in a plain torch loop, at a price known beforehand.

Every EVERY epochs an attack of STEPS gradients is played on ROWS held-out rows: at most
ROWS * (STEPS + 1) gradients each time, whatever the model. The figure is an upper bound: what one
attack of that strength left. It may fall while clean accuracy does not.

    python examples/watch_training.py
"""

import time

import torch

import durometer as du

EPOCHS, EVERY, ROWS, STEPS = 8, 2, 64, 20


def main(epochs=EPOCHS):
    torch.manual_seed(0)
    digits = du.datasets.mnist()
    x, y = digits.train.x, digits.train.y
    watched = digits.test.sample(ROWS, seed=0)
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(784, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )
    adam = torch.optim.Adam(net.parameters(), 2e-3)
    order = torch.Generator().manual_seed(0)  # the training's own: the attack draws from its own
    logged = []
    for epoch in range(1, epochs + 1):
        began = time.process_time()
        net.train()
        for rows in torch.randperm(len(x), generator=order).split(128):
            adam.zero_grad()
            torch.nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            adam.step()
        trained = time.process_time() - began
        if epoch % EVERY == 0:
            began = time.process_time()
            net.eval()
            report = du.evaluate(
                net, watched, space=du.Linf(0.1), attack=du.APGD(STEPS), progress=False
            )
            clean, robust = float(report.metric("clean")), float(report.metric("robust"))
            spent = int(report.table["backwards"].sum())
            assert spent <= ROWS * (STEPS + 1)
            logged.append((epoch, clean, robust))
            print(
                f"epoch {epoch}: clean {clean:.3f}, robust at most {robust:.3f}; "
                f"{spent} gradients, "
                f"{time.process_time() - began:.2f} CPU-s beside {trained:.2f} of an epoch"
            )
    return logged


if __name__ == "__main__":
    main()
