import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { folderMailer } from '../../../activities/mail/folder.ts'
import { mailMessage } from '../../../activities/mail/message.ts'
import { MailRefused } from '../../../activities/mail/port.ts'
import { smtpMailer } from '../../../activities/mail/smtp.ts'
import { mailerContract, mailOf } from '../../contracts/mailer.ts'
import { type MailServer, readMail, type Script, startMailServer } from '../../kit/servers/mail-server.ts'

const base = mkdtempSync(join(tmpdir(), 'berth-mail-'))
const folder = join(base, 'mail')
test.after.always(() => rmSync(base, { recursive: true, force: true }))
/** The first mail makes the folder. */
const files = () =>
  (existsSync(folder) ? readdirSync(folder) : []).filter(name => name.endsWith('.eml')).map(name => join(folder, name))

let shared: MailServer
test.before(async () => {
  shared = await startMailServer()
})
test.after.always(() => shared?.stop())

mailerContract(test, 'folder', () => ({
  mailer: folderMailer(folder),
  received: async () => files().map(path => readFileSync(path, 'utf8')),
}))
mailerContract(test.serial, 'smtp', () => ({
  mailer: smtpMailer({ ...shared, secure: false, credentials: null }),
  received: async () => shared.received,
}))

test('a mail in the folder is one file that only its owner can read', async t => {
  const mail = mailOf()
  for (let n = 0; n < 2; n++) await folderMailer(folder).send(mail, AbortSignal.timeout(30_000))
  const mine = files().filter(path => path.includes(mail.id))
  t.deepEqual(mine, [join(folder, `2100-01-02T030405.000Z-${mail.id}.eml`)])
  t.is(statSync(mine[0]!).mode & 0o777, 0o600)
})

test('files that are older than a month are removed, and only those', async t => {
  const own = join(base, 'aged')
  const id = 'a'.repeat(32)
  mkdirSync(own)
  const old = [`2020-01-02T030405.000Z-${id}.eml`, `2020-01-02T030405.000Z-${id}.eml.new`]
  const kept = ['2020-notes.eml', `2100-01-02T030405.000Z-${id}.eml`]
  for (const name of [...old, ...kept]) writeFileSync(join(own, name), '')
  const mail = mailOf()
  await folderMailer(own).send(mail, AbortSignal.timeout(30_000))
  t.deepEqual(readdirSync(own).sort(), [...kept, `2100-01-02T030405.000Z-${mail.id}.eml`].sort())
})

/** One attempt at a new server that follows a script. */
async function tried(script: Script, credentials: { user: string; pass: string } | null = null, timeoutMs = 5000) {
  const server = await startMailServer()
  server.script = script
  const mailer = smtpMailer({ ...server, secure: false, credentials })
  const error: Error | null = await mailer.send(mailOf(), AbortSignal.timeout(timeoutMs)).then(
    () => null,
    problem => problem,
  )
  await server.stop()
  return { server, error, final: error instanceof MailRefused }
}

test('a final answer about the mail or its receiver is final', async t => {
  for (const script of [{ recipient: [550] }, { taken: [554] }]) {
    const { error, final } = await tried(script)
    t.true(final, String(error))
    t.regex(error!.message, /scripted 55\d/)
  }
})

test('everything else may be retried: 4xx, our login, our sender, a cut connection, silence', async t => {
  const login = { user: 'berth', pass: 'wrong' }
  for (const [script, credentials] of [
    [{ recipient: [450] }, null],
    [{ taken: [421] }, null],
    [{ sender: [553] }, null],
    [{ login: [535] }, login],
    [{ recipient: ['cut'] }, null],
    [{ taken: ['cut'] }, null],
  ] as const) {
    const { error, final } = await tried(JSON.parse(JSON.stringify(script)), credentials)
    t.truthy(error, JSON.stringify(script))
    t.false(final, `${JSON.stringify(script)}: ${error}`)
  }
  t.like((await tried({ recipient: ['hang'] }, null, 300)).error, { name: 'TimeoutError' })
  const nobody = smtpMailer({ host: '127.0.0.1', port: 1, secure: false, credentials: null })
  const refused = await t.throwsAsync(nobody.send(mailOf(), AbortSignal.timeout(5000)))
  t.false(refused instanceof MailRefused)
})

test('credentials are sent to the server, and to a remote one only over TLS', async t => {
  const login = { user: 'berth', pass: 'p@ss:word' }
  const { server, error } = await tried({}, login)
  t.is(error, null)
  t.like(server.logins, { length: 1, 0: login })

  for (const disabledCommands of [['STARTTLS'], []]) {
    const elsewhere = await startMailServer({ disabledCommands })
    // A name that is not a loopback name, but resolves to it; its certificate is invalid.
    const mailer = smtpMailer({ ...elsewhere, host: '0.0.0.0', secure: false, credentials: login })
    const error = await t.throwsAsync(mailer.send(mailOf(), AbortSignal.timeout(5000)))
    t.regex(error!.message, disabledCommands.length ? /STARTTLS/ : /certificate/)
    t.deepEqual([elsewhere.logins, elsewhere.received], [[], []])
    await elsewhere.stop()
  }
})

test('any written mail is read back unchanged', async t => {
  const letters = [...'ab =é長🚢\t.\n']
  const written = (length: number) =>
    Array.from({ length }, () => letters[Math.floor(Math.random() * letters.length)]).join('')
  for (let n = 0; n < 1000; n++) {
    const mail = mailOf({ subject: `s${written(n % 90).replaceAll(/[\t\n]/g, '')}e`, text: written(n % 400) })
    const read = readMail(String(await mailMessage(mail)))
    // A mail ends with the end of a line.
    t.is(read.text, mail.text.replace(/[^\n]$/u, '$&\n'))
    t.is(read.headers.Subject, mail.subject)
  }
})
