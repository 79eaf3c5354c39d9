import test from 'ava'
import { outageKit, services } from '../crash/outage-kit.ts'

// A whole minute of each is test/long/outages.test.ts.
const survives = await outageKit()

for (const service of services)
  test.serial(`${service} is away in the middle of a deploy: every 200 becomes one deployment, a 503 none`, async t => {
    t.timeout(170_000)
    await survives(t, service, 10)
  })
