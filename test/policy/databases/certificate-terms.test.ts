import test from 'ava'
import { renewAt, renewalDelayMs, standingOf, type Term } from '../../../policy/databases/certificate-terms.ts'

const dayMs = 86_400_000
const days = (from: number, to: number): Term => ({ beginsAt: new Date(from * dayMs), endsAt: new Date(to * dayMs) })
const at = (day: number) => new Date(day * dayMs)

test('a certificate is due after two thirds of its life, and once its authority leaves the issuing to the next one', t => {
  const authority = days(0, 3650)
  t.deepEqual(renewAt(days(0, 396), authority), at(264))
  t.deepEqual(renewAt(days(3500, 3650), authority), at(3600))
  t.deepEqual(renewAt(days(3400, 3650), authority), new Date((3400 + (250 * 2) / 3) * dayMs))
  t.deepEqual(renewAt(days(3600, 3650), authority), at(3620))
  // Without another one it issues on, and nothing is renewed for ever.
  t.deepEqual(renewAt(days(3629, 3650), authority), at(3643))
})

test('each renewal in a row that has failed comes later, up to a day', t => {
  t.deepEqual(
    [1, 2, 3, 4, 5, 100].map(failures => renewalDelayMs(failures) / 1000),
    [600, 3600, 21_600, 86_400, 86_400, 86_400],
  )
})

test('the next authority is trusted from two thirds of the life of the one before, and issues a month before its end', t => {
  const [first, second] = [
    { name: 1, term: days(0, 3650) },
    { name: 2, term: days(2434, 6084) },
  ]
  const of = (day: number, authorities = [first, second]) => {
    const { issuing, trusted, isNextDue } = standingOf(authorities, at(day))
    return [issuing?.name, trusted.map(({ name }) => name), isNextDue]
  }
  t.deepEqual(standingOf([], at(0)), { issuing: undefined, trusted: [], isNextDue: true })
  t.deepEqual(of(1, [first]), [1, [1], false])
  t.deepEqual(of(2433, [first]), [1, [1], false])
  t.deepEqual(of(2434, [first]), [1, [1], true])
  t.deepEqual(of(2434), [1, [1, 2], false])
  t.deepEqual(of(3619), [1, [1, 2], false])
  t.deepEqual(of(3621), [2, [2, 1], false])
  t.deepEqual(of(3651), [2, [2], false])
  t.deepEqual(of(3640, [first]), [1, [1], true], 'the only one goes on')
  t.deepEqual(of(3651, [first]), [undefined, [], true])
})
