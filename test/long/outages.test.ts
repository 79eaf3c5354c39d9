import test from 'ava'
import { outageKit, outages } from '../kit/crash/outage-kit.ts'

const survives = await outageKit()

for (const outage of outages)
  test.serial(
    `${outage} is away for a minute of a deploy: every 200 becomes one deployment, a 503 none, and a database takes writes`,
    async t => {
      t.timeout(10 * 60_000)
      await survives(t, outage, 60)
    },
  )
