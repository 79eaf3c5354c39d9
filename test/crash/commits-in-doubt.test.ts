import test, { type ExecutionContext } from 'ava'
import type { Answer } from '../kit/api.ts'
import { testDatabase } from '../kit/database.ts'
import type { Trap } from '../kit/postgres-line.ts'
import { rows } from '../kit/rows.ts'
import { apisOfKinds, confirming, storing, Wish } from './commit-kit.ts'

const database = testDatabase()
const undo: (() => Promise<unknown>)[] = []
let apis: Awaited<ReturnType<typeof apisOfKinds>>

test.serial.before('each kind of wish has an API and a line of its own', async t => {
  t.timeout(120_000)
  const { db } = await database
  await rows(db).host('h1', { memoryMb: 1_000_000 })
  await db('hosts').update({ last_seen_at: '2100-01-01' })
  apis = await apisOfKinds(await database, undo)
})
test.serial.after.always('end them', async () => {
  for (const step of undo.reverse()) await step()
})

/** Each kind on its own line, and no two creations at once: one that is held has the rows of the hosts. */
async function everyKind(t: ExecutionContext, story: (wish: Wish) => Promise<void>): Promise<void> {
  t.timeout(240_000)
  const wishes = await Promise.all(apis.map(({ kind, line, api }) => new Wish(kind, line, api).begin()))
  const last = wishes.pop() as Wish
  await Promise.all(wishes.map(story))
  await story(last)
}

/** Asks, and springs a trap on the way. */
async function trapped(t: ExecutionContext, wish: Wish, trap: Trap): Promise<Answer> {
  let sprung = false
  void wish.line.trap(trap).then(() => {
    sprung = true
  })
  const relay = setInterval(() => wish.wake(), 500)
  const answer = await wish.ask().finally(() => clearInterval(relay))
  t.true(sprung, `${wish.kind}: the trap has sprung before ${answer.status} ${answer.text}`)
  return answer
}

const fates = [
  ['cut', 'lost', 503],
  ['cut', 'answered', 200],
  ['held', 'lost', 503],
  ['held', 'answered', 200],
] as const

for (const [manner, loss, status] of fates) {
  const how = `${manner} ${loss === 'lost' ? 'before' : 'after'} the server has it`
  test.serial(`a commit that is ${how} is answered ${status}, and that is the truth`, t =>
    everyKind(t, async wish => {
      const answer = await trapped(t, wish, { ...storing, manner, loss })
      t.is(answer.status, status, `${wish.kind}: ${answer.text}`)
      // What was held arrives now, when the answer is long given.
      await wish.line.release()
      await (status === 200 ? wish.done(t) : wish.undone(t))
    }),
  )

  test.serial(`what lets it begin is ${how}: it is said again, and the answer is 200`, t =>
    everyKind(t, async wish => {
      const answer = await trapped(t, wish, { ...confirming(wish.kind), manner, loss })
      t.is(answer.status, 200, `${wish.kind}: ${answer.text}`)
      await wish.line.release()
      await wish.done(t)
    }),
  )
}
