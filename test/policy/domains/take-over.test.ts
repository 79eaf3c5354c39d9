import test from 'ava'
import fc from 'fast-check'
import { firstAnswer, type Sighting, takeOverAnswer, takeOverMessage } from '../../../policy/domains/take-over.ts'

test('a free name is claimed, an account’s own is joined, and only DNS decides about another’s', t => {
  t.is(firstAnswer({ accountId: 'a', holder: null }), 'claim')
  for (const isProved of [true, false]) {
    t.is(firstAnswer({ accountId: 'a', holder: { accountId: 'a', isProved } }), 'join')
    t.is(firstAnswer({ accountId: 'b', holder: { accountId: 'a', isProved } }), 'ask DNS')
  }
})

/** `txt cname` of the account that asks, then of the holder: s = seen, m = missing, f = failed. */
function answerOf(isProved: boolean, letters: string): string {
  const sighting = (letter: string) => ({ s: 'seen', m: 'missing', f: 'failed' })[letter] as Sighting
  const [askTxt, askCname, holdTxt, holdCname] = [...letters.replaceAll(' ', '')].map(sighting) as [
    Sighting,
    Sighting,
    Sighting,
    Sighting,
  ]
  return takeOverAnswer({ isProved }, { txt: askTxt, cname: askCname }, { txt: holdTxt, cname: holdCname })
}

test('a name that was never proved goes to the account that proves it, by either record', t => {
  for (const letters of ['sm mm', 'ms mm', 'ss mm', 'sf mm', 'fs ff', 'sm ss'])
    t.is(answerOf(false, letters), 'take over', letters)
  for (const letters of ['mm mm', 'mm ss', 'mm ff']) t.is(answerOf(false, letters), 'refuse', letters)
  for (const letters of ['ff ff', 'fm mm', 'mf ss']) t.is(answerOf(false, letters), 'dns failed', letters)
})

test('a proved name goes to another account by its TXT record, once the holder’s records are removed', t => {
  for (const letters of ['sm mm', 'ss mm', 'sf mm']) t.is(answerOf(true, letters), 'take over', letters)
  for (const letters of ['ms mm', 'mf mm', 'sm sm', 'sm ms', 'ss ss', 'sm sf', 'sm fs', 'ms ff', 'mm mm'])
    t.is(answerOf(true, letters), 'refuse', letters)
  for (const letters of ['fs mm', 'fm mm', 'sm fm', 'sm mf', 'sm ff', 'ff ff'])
    t.is(answerOf(true, letters), 'dns failed', letters)
})

test('a failed answer is reported exactly when it would decide', t => {
  const sighting = fc.constantFrom<Sighting>('seen', 'missing', 'failed')
  const sightings = fc.record({ txt: sighting, cname: sighting })
  const settled = (one: Sighting): Sighting[] => (one === 'failed' ? ['seen', 'missing'] : [one])
  fc.assert(
    fc.property(fc.boolean(), sightings, sightings, (isProved, asking, holding) => {
      const possible = new Set(
        settled(asking.txt).flatMap(txt =>
          settled(asking.cname).flatMap(cname =>
            settled(holding.txt).flatMap(heldTxt =>
              settled(holding.cname).map(heldCname =>
                takeOverAnswer({ isProved }, { txt, cname }, { txt: heldTxt, cname: heldCname }),
              ),
            ),
          ),
        ),
      )
      const answer = takeOverAnswer({ isProved }, asking, holding)
      t.deepEqual([answer], possible.size === 1 ? [...possible] : ['dns failed'])
    }),
    { numRuns: 300 },
  )
})

test('a refusal names the record that takes the name over', t => {
  const text = takeOverMessage({ type: 'txt', name: '_berth.a.com', value: 'berth-verify=1' })
  t.true(text.includes('_berth.a.com') && text.includes('berth-verify=1'))
})
