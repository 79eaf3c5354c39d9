import test from 'ava'
import { platformApart } from '../kit/noise/apart.ts'
import { neighbour, noTimes, timeRounds } from '../kit/noise/neighbour.ts'
import { makeNoise } from '../kit/noise/noise.ts'

const started = platformApart(
  { HOST_MEMORY_MB: '65536', HOST_DISK_MB: '262144' },
  { settings: { HEALTH_GATE_SECONDS: '1000', DISK_MB_PER_256MB: '1024' } },
)

// How much slower it gets is test/long/noisy-neighbour.test.ts.
test.serial('alongside an account at its worst another one stops, starts, deploys and uploads as usual', async t => {
  t.timeout(900_000)
  const platform = await started
  const [ana, bob] = await Promise.all([platform.api.makeUser(), platform.api.makeUser()])
  const acts = await neighbour(platform, bob)
  const noise = await makeNoise(platform, ana, { silent: 20, busy: 4 })
  const alongside = noTimes()
  await t.notThrowsAsync(timeRounds(acts, 1, alongside))
  t.true((await noise.gates()) >= 8)
  t.log(JSON.stringify({ alongside, done: noise.done }))
  await noise.stop()
})
