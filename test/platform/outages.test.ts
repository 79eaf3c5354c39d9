import test from 'ava'
import { outageKit, outages } from '../kit/crash/outage-kit.ts'

// A whole minute of each is test/long/outages.test.ts.
const survives = await outageKit()

for (const outage of outages)
  test.serial(
    `while ${outage} is down in the middle of a deploy every 200 becomes one deployment, a 503 none, and a database takes writes`,
    async t => {
      t.timeout(170_000)
      await survives(t, outage, 10)
    },
  )
