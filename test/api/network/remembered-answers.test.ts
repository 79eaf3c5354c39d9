import test from 'ava'
import { RememberedAnswers } from '../../../api/network/remembered-answers.ts'
import { Busy } from '../../../policy/network/analytics-terms.ts'

const busy = async () => {
  throw new Busy('busy')
}

test('an answer is given again for 60 s, and for 15 minutes while the engine is busy', async t => {
  let now = Date.parse('2026-11-26T12:00:00Z')
  const start = new Date(now)
  const answers = new RememberedAnswers({ now: () => now })
  t.deepEqual(await answers.of('ana', 'k', async () => ({ n: 1 })), { text: '{"n":1}', cachedAt: null })
  now += 59_999
  t.deepEqual(await answers.of('ana', 'k', busy), { text: '{"n":1}', cachedAt: start })
  now += 1
  t.deepEqual(await answers.of('ana', 'k', busy), { text: '{"n":1}', cachedAt: start })
  await t.throwsAsync(
    answers.of('ana', 'k', async () => {
      throw new Error('a defect is no load')
    }),
    { message: /defect/ },
  )
  now = start.getTime() + 899_999
  t.deepEqual(await answers.of('ana', 'k', busy), { text: '{"n":1}', cachedAt: start })
  now += 1
  await t.throwsAsync(answers.of('ana', 'k', busy), { instanceOf: Busy })
  await t.throwsAsync(answers.of('ana', 'another', busy), { instanceOf: Busy })
})

test('callers of one key share a computation, and its failure is not remembered', async t => {
  const answers = new RememberedAnswers()
  let computed = 0
  const slowly = async () => {
    computed++
    await new Promise(resolve => setImmediate(resolve))
    return [computed]
  }
  const given = await Promise.all([1, 2, 3].map(() => answers.of('ana', 'k', slowly)))
  t.deepEqual(new Set(given.map(({ text }) => text)), new Set(['[1]']))
  await t.throwsAsync(answers.of('ana', 'other', busy))
  t.is((await answers.of('ana', 'other', slowly)).text, '[2]')
})

test('the oldest answers are forgotten when all take too many bytes', async t => {
  const answers = new RememberedAnswers({ maxBytes: 100 })
  const of = async (key: string) => (await answers.of('ana', key, async () => 'x'.repeat(18))).cachedAt !== null
  t.deepEqual([await of('a'), await of('b'), await of('a')], [false, false, true])
  t.deepEqual([await of('c'), await of('b'), await of('c')], [false, true, true])
  t.false(await of('a'), 'the oldest')
  await answers.of('ana', 'huge', async () => 'x'.repeat(1000))
  t.is((await answers.of('ana', 'huge', async () => 'y')).text, '"y"')
})

test('an owner with large answers forgets their own, and those of others stay', async t => {
  const answers = new RememberedAnswers({ maxBytes: 1000 })
  const isRemembered = async (owner: string, key: string, length = 1) =>
    (await answers.of(owner, key, async () => 'x'.repeat(length))).cachedAt !== null
  for (const n of [1, 2, 3, 4]) await isRemembered('ana', `a${n}`, 18)
  await isRemembered('bob', 'b1', 198)
  await isRemembered('bob', 'b2', 198)
  await isRemembered('bob', 'b3', 198)
  for (const n of [1, 2, 3, 4]) t.true(await isRemembered('ana', `a${n}`))
  t.deepEqual([await isRemembered('bob', 'b3'), await isRemembered('bob', 'b2')], [true, true])
  t.false(await isRemembered('bob', 'b1'))
  await isRemembered('bob', 'huge', 2000)
  t.false(await isRemembered('bob', 'huge'))
  t.true(await isRemembered('ana', 'a1'))
})
