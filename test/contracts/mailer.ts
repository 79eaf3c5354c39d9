import type { SerialFn, TestFn } from 'ava'
import { type Mail, type Mailer, MailRefused } from '../../activities/mail/port.ts'
import { newId } from '../../policy/ids.ts'
import { type ReadMail, readMail } from '../kit/servers/mail-server.ts'

export interface MailEnd {
  mailer: Mailer
  /** Every mail that arrived, as it came. */
  received(): Promise<string[]>
}

export const mailOf = (changes: Partial<Mail> = {}): Mail => ({
  id: newId(),
  from: { name: 'Berth', address: 'berth@example.org' },
  to: 'ana@example.org',
  subject: 'shop is using 92% of its memory',
  text: 'Hello\n',
  language: 'en-US',
  date: new Date('2100-01-02T03:04:05Z'),
  ...changes,
})

/** The contract of every mailer. */
export function mailerContract(test: TestFn | SerialFn, name: string, end: () => MailEnd): void {
  const deadline = () => AbortSignal.timeout(10_000)
  async function arrived({ id }: Mail): Promise<ReadMail[]> {
    const raw = await end().received()
    return raw.map(readMail).filter(mail => mail.headers['Message-ID'] === `<${id}@example.org>`)
  }

  test(`${name}: a mail arrives as it was written, in every script`, async t => {
    const text = [
      'Olá, ação: 100% = tudo; 您的应用 “shop”、メモリ',
      '.',
      '..two dots',
      'From nobody',
      'trailing space ',
      '\ttab',
      `${'long '.repeat(60)}end`,
      `${'長'.repeat(200)}`,
      '',
      '-- ',
      'Berth',
      '',
    ].join('\n')
    const mail = mailOf({ subject: `アプリケーション「お店」は ${'メモリ'.repeat(20)} 🚢`, text, language: 'ja-JP' })
    await end().mailer.send(mail, deadline())
    const [read, ...others] = await arrived(mail)
    t.deepEqual(others, [])
    t.is(read!.text.replace(/\n+$/, '\n'), text)
    t.is(read!.headers.Subject, mail.subject)
    t.like(read!.headers, {
      From: 'Berth <berth@example.org>',
      To: 'ana@example.org',
      Date: 'Sat, 02 Jan 2100 03:04:05 +0000',
      'Content-Language': 'ja-JP',
      'Auto-Submitted': 'auto-generated',
    })
  })

  test(`${name}: no text becomes a header`, async t => {
    const mail = mailOf({
      subject: 'shop\r\nBcc: everybody@example.org\r\n\r\n<script>',
      from: { name: 'Berth\r\nX-Evil: 1', address: 'berth@example.org' },
    })
    await end().mailer.send(mail, deadline())
    const [read] = await arrived(mail)
    t.deepEqual(Object.keys(read!.headers).sort(), [
      'Auto-Submitted',
      'Content-Language',
      'Content-Transfer-Encoding',
      'Content-Type',
      'Date',
      'From',
      'MIME-Version',
      'Message-ID',
      'Subject',
      'To',
    ])
    t.is(read!.headers.Subject, 'shop Bcc: everybody@example.org <script>')
  })

  test(`${name}: anything but one address is refused permanently, and nothing is sent`, async t => {
    for (const to of ['', 'ana', 'a@b.c, d@e.f', 'a@b.c\r\nBcc: d@e.f', '<a@b.c>', 'a b@c.d']) {
      const mail = mailOf({ to })
      await t.throwsAsync(end().mailer.send(mail, deadline()), { instanceOf: MailRefused }, to)
      t.deepEqual(await arrived(mail), [])
    }
  })

  test(`${name}: a mail that is sent again is the same mail`, async t => {
    const mail = mailOf()
    await end().mailer.send(mail, deadline())
    await end().mailer.send(mail, deadline())
    const bodies = new Set((await arrived(mail)).map(({ text }) => text))
    t.is(bodies.size, 1)
  })

  test(`${name}: a cancelled mail is not sent`, async t => {
    const mail = mailOf()
    await t.throwsAsync(end().mailer.send(mail, AbortSignal.abort()), { any: true })
    t.deepEqual(await arrived(mail), [])
  })
}
