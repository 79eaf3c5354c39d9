import test from 'ava'
import { outageKit, services } from '../crash/outage-kit.ts'

const survives = await outageKit()

for (const service of services)
  test.serial(`${service} is away for a minute of a deploy: every 200 becomes one deployment, a 503 none`, async t => {
    t.timeout(10 * 60_000)
    await survives(t, service, 60)
  })
