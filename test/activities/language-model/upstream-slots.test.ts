import test from 'ava'
import type { Upstream } from '../../../activities/language-model/upstream.ts'
import { UpstreamSlots } from '../../../activities/language-model/upstream-slots.ts'

const upstream: Upstream = {
  complete: () => Promise.reject(new Error('none')),
  close: async () => {},
}
const never = new AbortController().signal

function scene(upstreams: number) {
  const clock = { ms: 0 }
  const slots = new UpstreamSlots(Array(upstreams).fill(upstream), { atOnce: 1, waitMs: 20_000, now: () => clock.ms })
  const enter = (account: string, waitTime = slots.waitTime(), signal = never) =>
    slots.enter(slots.stations, account, waitTime, signal)
  const skip = (n: number) => {
    for (let times = 0; times < 3; times++) slots.stations[n]!.breaker.enter('ana')!.fail(false)
  }
  return { clock, slots, enter, skip }
}

test('a call that waits for an upstream that is skipped by then takes no slot of it', async t => {
  const { clock, enter, skip } = scene(1)
  const first = await enter('ana')
  const waiting = enter('bo')
  skip(0)
  first!.release()
  t.is(await waiting, null)
  clock.ms += 10_000
  t.is((await enter('cy', { leftMs: 0 }))?.station.number, 1)
})

test('a call that waits gets the slot of another upstream where the first is skipped', async t => {
  const { enter, skip } = scene(2)
  const [one, two] = [await enter('ana'), await enter('bo')]
  const waiting = enter('cy')
  skip(0)
  one!.release()
  two!.release()
  t.is((await waiting)?.station.number, 2)
})

test('a call that waits at several upstreams holds one slot', async t => {
  const { enter } = scene(2)
  const held = [await enter('ana'), await enter('bo')]
  const waiting = enter('cy')
  for (const slot of held) slot!.release()
  t.truthy(await waiting)
  t.truthy(await enter('di', { leftMs: 0 }))
  t.is(await enter('ed', { leftMs: 0 }), null)
})

test('the time for waiting is that of all tries of a call together', async t => {
  const { enter } = scene(1)
  await enter('ana')
  const waitTime = { leftMs: 30 }
  t.is(await enter('bo', waitTime), null)
  t.true(waitTime.leftMs <= 1)
  t.is(await enter('bo', waitTime), null)
})
