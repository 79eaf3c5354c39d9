import test from 'ava'
import { beginSignIn, endSignIn } from '../../../db/accounts/sign-ins.ts'
import { signInMail } from '../../../policy/accounts/sign-in-mails.ts'
import { newId } from '../../../policy/ids.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

async function account() {
  const { db } = await database
  const { id } = await rows(db).user()
  const email: string = (await db('users').where({ id }).first()).email
  const begin = (network: string) => beginSignIn(db, { email, network })
  /** The sign-ins whose codes lie in the mailbox, oldest first. */
  const mailbox = async (): Promise<string[]> =>
    (await db('mails').where({ user_id: id }).orderBy('created_at')).map(({ fields }) => fields.signIn)
  /** With the newest code of the mailbox, as a person would. */
  const enter = async (signIn: string) => {
    const newest = (await mailbox()).at(-1)
    return endSignIn(db, signIn, codeOf => codeOf === newest)
  }
  return { db, id, begin, mailbox, enter }
}

test.serial(
  'five requests from other networks do not lock the owner out: a mail arrives, and its code works',
  async t => {
    const { id, begin, mailbox, enter } = await account()
    for (let n = 1; n <= 5; n++) await begin(`2001:db8:0:${n}`)
    t.is((await mailbox()).length, 5)
    const own = await begin('192.0.2.7')
    t.is((await mailbox()).length, 6)
    t.is(await enter(own), id)
  },
)

test.serial('mails are bounded for any number of networks, and the code in the mailbox still works', async t => {
  const { id, begin, mailbox, enter } = await account()
  for (let n = 1; n <= 40; n++) await begin(`2001:db8:0:${n.toString(16)}`)
  t.is((await mailbox()).length, 15)
  t.is(new Set(await mailbox()).size, 5, 'codes')
  const own = await begin('192.0.2.7')
  t.is((await mailbox()).length, 15)
  t.is(await enter(own), id)
})

test.serial("attempts in a stranger's sign-in do not count for the owner's", async t => {
  const { db, id, begin, enter } = await account()
  const strangers: string[] = []
  for (let n = 1; n <= 20; n++) strangers.push(await begin(`2001:db8:0:${n}`))
  const own = await begin('192.0.2.7')
  for (const stranger of strangers)
    for (let n = 0; n < 6; n++) t.is(await endSignIn(db, stranger, () => false), undefined)
  t.is(await enter(own), id)
})

test.serial('a code that several sign-ins share is used once', async t => {
  const { id, begin, enter } = await account()
  const signIns: string[] = []
  for (let n = 1; n <= 12; n++) signIns.push(await begin(`2001:db8:0:${n}`))
  const entered = await Promise.all(signIns.slice(5).map(enter))
  t.deepEqual(
    entered.filter(user => user !== undefined),
    [id],
  )
  t.is(await enter(signIns.at(-1)!), undefined)
})

test.serial('known and unknown addresses, and those past the cap, take the same statements', async t => {
  const { db, begin } = await account()
  const texts: string[] = []
  const note = ({ sql }: { sql: string }) => void texts.push(sql)
  /** Only this call runs: the tests of this file take turns. */
  const statementsOf = async (work: () => Promise<unknown>) => {
    texts.length = 0
    db.on('query', note)
    await work()
    db.removeListener('query', note)
    return [...texts]
  }
  const known = await statementsOf(() => begin('192.0.2.7'))
  t.true(known.length > 4)
  t.deepEqual(
    await statementsOf(() => beginSignIn(db, { email: `${newId()}@example.org`, network: '192.0.2.7' })),
    known,
  )
  for (let n = 0; n < 6; n++) await begin('192.0.2.7')
  t.deepEqual(await statementsOf(() => begin('192.0.2.7')), known)
})

test.serial('first new codes, then the open one again, then none, and one network cannot cause all of them', t => {
  const cases: [all: number, byNetwork: number, open: string | null, codeOf: string | null, sent: boolean][] = [
    [0, 0, null, null, true],
    [4, 4, 'a', null, true],
    [5, 5, 'a', 'a', false],
    [5, 0, 'a', 'a', true],
    [14, 4, 'a', 'a', true],
    [15, 0, 'a', 'a', false],
    [6, 1, null, null, true],
    [15, 0, null, null, false],
  ]
  for (const [all, byNetwork, open, codeOf, sent] of cases)
    t.deepEqual(signInMail({ all, byNetwork, open }), { codeOf, sent }, `${all} ${byNetwork} ${open}`)
})
