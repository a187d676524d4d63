"""What is handed in must be able to exist

The 63 features of a web address hang together: the number of dots cannot exceed its length. An
attack that ignores this "succeeds" with addresses nobody can register.
"""

# %%
import assay as ay
from assay.demo import models

net = models.url_net()
phishing = ay.datasets.url().test.where(y="phishing").sample(80)
schema = phishing.schema
print(schema)

# %%
# In a plain ball of the scaled features nearly everything breaks ...
space = schema.space(eps=0.2, p=2)
report = ay.evaluate(net, phishing, space=space, attack=ay.CAPGD(), progress=False)
print(report)

# %%
# ... and what was handed in here keeps every type, bound and relation.
changed = schema.frame(report.adversarial)
print(len(schema.validate(changed)), "rows break a rule")
