import test, { type ExecutionContext } from 'ava'
import { acceptance } from '../../policy/acceptance.ts'
import type { Answer } from '../kit/actors/api.ts'
import {
  answeredImmediately,
  apisOfKinds,
  confirming,
  KindRequest,
  storing,
  withoutConcurrentCreations,
} from '../kit/crash/commit-kit.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'
import type { Trap } from '../kit/servers/postgres-line.ts'

const database = testDatabase()
const undo: (() => Promise<unknown>)[] = []
let apis: Awaited<ReturnType<typeof apisOfKinds>>

test.serial.before('each kind of request has an API and a line of its own', async t => {
  t.timeout(120_000)
  const { db } = await database
  await rows(db).host('h1', { memoryMb: 1_000_000 })
  await db('hosts').update({ last_seen_at: '2100-01-01' })
  apis = await apisOfKinds(await database, undo)
})
test.serial.after.always('end them', async () => {
  for (const step of undo.reverse()) await step()
})

/** Each kind has its own connection. */
async function everyKind(t: ExecutionContext, story: (request: KindRequest) => Promise<void>): Promise<void> {
  t.timeout(240_000)
  const requests = await Promise.all(apis.map(({ kind, line, api }) => new KindRequest(kind, line, api).begin()))
  for (const group of withoutConcurrentCreations(requests)) await Promise.all(group.map(story))
}

/** What must be 200 may take long on a slow machine; what must be 503 is said by the deadlines of the product. */
const patient = { lookMs: 30_000, tryMs: 10_000, confirmMs: 30_000 }
const patientPush = { answerMs: 60_000, commitMs: 60_000, confirmMs: 60_000 }
const product = { ...acceptance }

test.serial.afterEach.always('the deadlines of the product', () => void Object.assign(acceptance, product))

/** Sends the request with an armed trap. */
async function trapped(t: ExecutionContext, request: KindRequest, trap: Trap): Promise<Answer> {
  let sprung = false
  void request.line.trap(trap).then(() => {
    sprung = true
  })
  const relay = setInterval(() => void request.wake(), 500)
  const answer = await request.send().finally(() => clearInterval(relay))
  t.true(sprung, `${request.kind}: the trap has sprung before ${answer.status} ${answer.text}`)
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
    everyKind(t, async request => {
      if (status === 200) Object.assign(acceptance, patient, { push: patientPush })
      const answer = await trapped(t, request, { ...storing(request.kind), manner, loss })
      t.is(answer.status, status, `${request.kind}: ${answer.text}`)
      // What was held arrives now, when the answer is long given.
      await request.line.release()
      await (status === 200 ? request.done(t) : request.undone(t))
    }),
  )

  test.serial(`a confirmation that is ${how} is sent again, and the answer is 200`, t =>
    everyKind(t, async request => {
      Object.assign(acceptance, patient, { push: patientPush })
      const answer = await trapped(t, request, { ...confirming(request.kind), manner, loss })
      t.is(answer.status, 200, `${request.kind}: ${answer.text}`)
      await request.line.release()
      await request.done(t)
    }),
  )
}

/** Sends the request, and cuts a connection that then admits nothing until the answer has arrived: longer than any caller waits. */
async function alone(t: ExecutionContext, request: KindRequest, trap: Pick<Trap, 'at' | 'after'>): Promise<Answer> {
  void request.line.trap({ ...trap, manner: 'cut', loss: 'answered' }).then(() => request.line.admit(false))
  const relay = setInterval(() => void request.wake(), 500)
  const answer = await request.send().finally(() => clearInterval(relay))
  t.log(request.kind, answer.status)
  return answer
}

test.serial(
  'a commit whose answer is lost and whose outcome cannot be read is answered 503, and nothing ever happens',
  t =>
    everyKind(t, async request => {
      const answer = await alone(t, request, storing(request.kind))
      t.is(answer.status, 503, `${request.kind}: ${answer.text}`)
      t.is((await request.operations())[0]?.state, 'accepting', 'it is stored')
      request.line.admit(true)
      await request.undone(t)
    }),
)

test.serial(
  'a confirmation that cannot be sent for long is answered 200, and the operation starts once it is sent',
  t =>
    everyKind(t, async request => {
      if (!answeredImmediately.includes(request.kind)) return
      Object.assign(acceptance, { push: { ...patientPush, confirmMs: product.push.confirmMs } })
      const answer = await alone(t, request, confirming(request.kind))
      t.is(answer.status, 200, `${request.kind}: ${answer.text}`)
      request.line.admit(true)
      await request.confirmed()
      await request.done(t)
    }),
)

test.serial(
  'with the commit cut after and the confirmation cut before the server has it the answer is 200, and it is done',
  t =>
    everyKind(t, async request => {
      Object.assign(acceptance, patient, { push: patientPush })
      const second = request.line
        .trap({ ...storing(request.kind), manner: 'cut', loss: 'answered' })
        .then(() => request.line.trap({ ...confirming(request.kind), manner: 'cut', loss: 'lost' }))
      let sprung = false
      void second.then(() => {
        sprung = true
      })
      const relay = setInterval(() => void request.wake(), 500)
      const answer = await request.send().finally(() => clearInterval(relay))
      t.true(sprung, `${request.kind}: ${answer.text}`)
      t.is(answer.status, 200, `${request.kind}: ${answer.text}`)
      await request.done(t)
    }),
)
