import test, { type ExecutionContext } from 'ava'
import { acceptance } from '../../policy/acceptance.ts'
import type { Answer } from '../kit/actors/api.ts'
import { apisOfKinds, confirming, storing, told, Wish } from '../kit/crash/commit-kit.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'
import type { Trap } from '../kit/servers/postgres-line.ts'

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

/** Each kind has its own connection, without concurrent creations: one that is held has the rows of the hosts. */
async function everyKind(t: ExecutionContext, story: (wish: Wish) => Promise<void>): Promise<void> {
  t.timeout(240_000)
  const wishes = await Promise.all(apis.map(({ kind, line, api }) => new Wish(kind, line, api).begin()))
  const last = wishes.pop() as Wish
  await Promise.all(wishes.map(story))
  await story(last)
}

/** What must be 200 may take long on a slow machine; what must be 503 is said by the deadlines of the product. */
const patient = { lookMs: 30_000, tryMs: 10_000, confirmMs: 30_000 }
const patientPush = { answerMs: 60_000, commitMs: 60_000, confirmMs: 60_000 }
const product = { ...acceptance }

test.serial.afterEach.always('the deadlines of the product', () => void Object.assign(acceptance, product))

/** Sends the request with an armed trap. */
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
      if (status === 200) Object.assign(acceptance, patient, { push: patientPush })
      const answer = await trapped(t, wish, { ...storing, manner, loss })
      t.is(answer.status, status, `${wish.kind}: ${answer.text}`)
      // What was held arrives now, when the answer is long given.
      await wish.line.release()
      await (status === 200 ? wish.done(t) : wish.undone(t))
    }),
  )

  test.serial(`its confirmation is ${how}: it is sent again, and the answer is 200`, t =>
    everyKind(t, async wish => {
      Object.assign(acceptance, patient, { push: patientPush })
      const answer = await trapped(t, wish, { ...confirming(wish.kind), manner, loss })
      t.is(answer.status, 200, `${wish.kind}: ${answer.text}`)
      await wish.line.release()
      await wish.done(t)
    }),
  )
}

/** Sends the request, and cuts a connection that then admits nothing until the answer has arrived: longer than any caller waits. */
async function alone(t: ExecutionContext, wish: Wish, trap: Pick<Trap, 'at' | 'after'>): Promise<Answer> {
  void wish.line.trap({ ...trap, manner: 'cut', loss: 'answered' }).then(() => wish.line.admit(false))
  const relay = setInterval(() => wish.wake(), 500)
  const answer = await wish.ask().finally(() => clearInterval(relay))
  t.log(wish.kind, answer.status)
  return answer
}

test.serial(
  'a commit whose answer is lost and whose outcome cannot be read is answered 503, and nothing ever happens',
  t =>
    everyKind(t, async wish => {
      const answer = await alone(t, wish, storing)
      t.is(answer.status, 503, `${wish.kind}: ${answer.text}`)
      t.is((await wish.operations())[0]?.state, 'accepting', 'it is stored')
      wish.line.admit(true)
      await wish.undone(t)
    }),
)

test.serial(
  'a confirmation that cannot be sent for long is answered 200, and the operation starts once it is sent',
  t =>
    everyKind(t, async wish => {
      if (!told.includes(wish.kind)) return
      Object.assign(acceptance, { push: { ...patientPush, confirmMs: product.push.confirmMs } })
      const answer = await alone(t, wish, { ...confirming(wish.kind) })
      t.is(answer.status, 200, `${wish.kind}: ${answer.text}`)
      wish.line.admit(true)
      await wish.confirmed()
      await wish.done(t)
    }),
)

test.serial(
  'with the commit cut after and the confirmation cut before the server has it the answer is 200, and it is done',
  t =>
    everyKind(t, async wish => {
      Object.assign(acceptance, patient, { push: patientPush })
      const second = wish.line
        .trap({ ...storing, manner: 'cut', loss: 'answered' })
        .then(() => wish.line.trap({ ...confirming(wish.kind), manner: 'cut', loss: 'lost' }))
      let sprung = false
      void second.then(() => {
        sprung = true
      })
      const relay = setInterval(() => wish.wake(), 500)
      const answer = await wish.ask().finally(() => clearInterval(relay))
      t.true(sprung, `${wish.kind}: ${answer.text}`)
      t.is(answer.status, 200, `${wish.kind}: ${answer.text}`)
      await wish.done(t)
    }),
)
