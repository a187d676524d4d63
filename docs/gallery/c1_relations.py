"""What is handed in must be able to exist

The 63 features of a web address hang together: the number of dots cannot exceed its length. An
attack that ignores this "succeeds" with addresses nobody can register.
"""

# %%
import durometer as du
from durometer.demo import models

net = models.url_net()
phishing = du.datasets.url().test.where(y="phishing").sample(80)
schema = phishing.schema
print(schema)

# %%
# In a plain ball of the scaled features nearly everything breaks ...
space = schema.space(eps=0.2, p=2)
report = du.evaluate(net, phishing, space=space, attack=du.CAPGD(), progress=False)
print(report)

# %%
# ... and what was handed in here keeps every type, bound and relation.
changed = schema.frame(report.adversarial)
print(len(schema.validate(changed)), "rows break a rule")
