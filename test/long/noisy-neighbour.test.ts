import test from 'ava'
import { platformApart } from '../kit/noise/apart.ts'
import { assertQuietEnough } from '../kit/noise/beside-noise.ts'

const started = platformApart(
  { HOST_MEMORY_MB: '65536', HOST_DISK_MB: '262144' },
  { settings: { HEALTH_GATE_SECONDS: '1000', DISK_MB_PER_256MB: '1024' } },
)

test.serial('alongside an account at its worst the p95 of another stays within 3 times of its value alone', async t => {
  t.timeout(30 * 60_000)
  await assertQuietEnough(t, await started, { rounds: 10, blocks: 4 })
})
