import { setImmediate as turn } from 'node:timers/promises'
import test from 'ava'
import { sharedWakes } from '../../../workers/temporal/lane-wakes.ts'

function scripted() {
  const started: string[] = []
  const ends: { resolve(): void; reject(error: Error): void }[] = []
  const wake = (appId: string) =>
    new Promise<void>((resolve, reject) => {
      started.push(appId)
      ends.push({ resolve, reject })
    })
  return { started, ends, lanes: sharedWakes({ wake }) }
}

test('callers during a wake-up share the next one', async t => {
  const { started, ends, lanes } = scripted()
  const first = lanes.wake('a', 'ana')
  const later = [lanes.wake('a', 'ana'), lanes.wake('a', 'ana'), lanes.wake('a', 'ana')]
  const other = lanes.wake('b', 'ana')
  t.deepEqual(started, ['a', 'b'])
  ends[0]?.resolve()
  await first
  await turn()
  t.deepEqual(started, ['a', 'b', 'a'], 'one for the three, begun after they asked')
  const afterwards = lanes.wake('a', 'ana')
  ends[2]?.resolve()
  await Promise.all(later)
  await turn()
  ends[3]?.resolve()
  ends[1]?.resolve()
  await Promise.all([afterwards, other])
  t.deepEqual(started, ['a', 'b', 'a', 'a'])
  await turn()
  void lanes.wake('a', 'ana')
  t.is(started.length, 5, 'when none is under way, at once')
})

test('a failed wake-up rejects for all who shared it, and affects no others', async t => {
  const { started, ends, lanes } = scripted()
  const first = lanes.wake('a', 'ana')
  const second = lanes.wake('a', 'ana')
  ends[0]?.reject(new Error('away'))
  await t.throwsAsync(first, { message: 'away' })
  await turn()
  ends[1]?.resolve()
  await second
  t.is(started.length, 2)
})
