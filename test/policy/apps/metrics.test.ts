import test from 'ava'
import { highInARow } from '../../../policy/apps/memory-alerts.ts'
import {
  addSample,
  intervalOf,
  metricRules,
  pointOf,
  type Sample,
  type SampleSum,
} from '../../../policy/apps/metrics.ts'

const mb = 1024 * 1024
const at = Date.UTC(2030, 0, 1, 12, 5)
const next = at + 300_000

const sample = (changes: Partial<Sample> = {}): Sample => ({
  run: 'c1/1',
  startedAt: new Date(at - 3600_000),
  cpuPercent: 10,
  memoryBytes: 100 * mb,
  networkIn: 1000,
  networkOut: 500,
  ...changes,
})

/** Samples one after the other, each in its interval. */
const after = (...samples: (readonly [Partial<Sample>, number?])[]): SampleSum =>
  samples.reduce<SampleSum | undefined>(
    (before, [changes, interval = at]) => addSample(before, sample(changes), interval),
    undefined,
  ) as SampleSum

test('intervals start at whole 5 minutes, and a day has exactly as many as are shown', t => {
  t.is(intervalOf(at + 299_999, metricRules.pointSeconds), at)
  t.is(intervalOf(next, metricRules.pointSeconds), next)
  t.is((metricRules.keptHours * 3600) / metricRules.pointSeconds, metricRules.maxPoints)
})

test('a point is the average of its samples, and the traffic between its first and its last', t => {
  const gathering = after(
    [{}],
    [{ cpuPercent: 30, memoryBytes: 200 * mb, networkIn: 4000, networkOut: 700 }],
    [{ cpuPercent: 20, memoryBytes: 300 * mb, networkIn: 4500, networkOut: 700 }],
  )
  t.deepEqual(pointOf('a', gathering), { appId: 'a', at: new Date(at), cpu: 20, ram: 200, netIn: 3500, netOut: 200 })
})

test('traffic across two intervals counts in the second, and none is lost', t => {
  const first = after([{}], [{ networkIn: 1600 }])
  const second = addSample({ ...first, samples: 0 }, sample({ networkIn: 2000, networkOut: 900 }), next)
  t.like(second, { at: next, samples: 1, netIn: 400, netOut: 400 })
  t.is(first.netIn, 600)
})

test('a restarted container counts from zero, whether its counters are lower or higher', t => {
  t.like(after([{ networkIn: 9000 }], [{ run: 'c1/2', networkIn: 70, networkOut: 30 }]), { netIn: 70, netOut: 30 })
  t.like(after([{}], [{ run: 'c1/2', networkIn: 5000, networkOut: 5000 }]), { netIn: 5000, netOut: 5000 })
  t.like(after([{ networkIn: 9000 }], [{ networkIn: 20 }]), { netIn: 20, netOut: 500 })
  t.like(
    after([{}], [{ run: 'c2/2', networkIn: 10, networkOut: 10 }], [{ run: 'c2/2', networkIn: 15, networkOut: 40 }]),
    {
      netIn: 15,
      netOut: 40,
    },
  )
})

test('traffic before the first sample counts only when the run started in this interval', t => {
  t.like(after([{}]), { netIn: 0, netOut: 0 })
  t.like(after([{ startedAt: new Date(at + 1000) }]), { netIn: 1000, netOut: 500 })
})

test('no figure of a point is negative, whatever the counters do', t => {
  let gathering: SampleSum | undefined
  for (let n = 0; n < 2000; n++) {
    const changes = { run: `c/${n % 7 === 0 ? n : 0}`, networkIn: (n * 7919) % 5000, networkOut: (n * 104_729) % 9000 }
    const before: SampleSum | undefined = gathering
    gathering = addSample(before, sample(changes), at + Math.floor(n / 20) * 300_000)
    t.true(gathering.netIn >= 0 && gathering.netOut >= 0)
    if (before?.at === gathering.at) t.true(gathering.netIn >= before.netIn && gathering.netOut >= before.netOut)
  }
})

test('memory is too high from 90 % of the limit on, and one lower sample starts the count again', t => {
  t.is(highInARow(0, 460 * mb, 512 * mb), 0)
  t.is(highInARow(0, 461 * mb, 512 * mb), 1)
  t.is(highInARow(2, 512 * mb, 512 * mb), 3)
  t.is(highInARow(2, 100 * mb, 512 * mb), 0)
})
