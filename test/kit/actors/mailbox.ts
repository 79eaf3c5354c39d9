import test from 'ava'
import { pino } from 'pino'
import { smtpMailer } from '../../../activities/mail/smtp.ts'
import { mailedCodes } from '../../../workers/loops/mailed-codes.ts'
import { type MailServer, readMail, startMailServer } from '../servers/mail-server.ts'
import { masterKey, type TestApi } from './api.ts'
import { sendDueMails } from './due-mails.ts'

export interface Mailbox {
  /** The code of the newest mail to an address, as it is read there. Mail that is queued is sent first, through a real server. */
  codeFor(address: string): Promise<string>
}

/** Call it once at the top level of a test file, after `testApi()`: everybody's mail. */
export function testMailbox(api: () => TestApi): () => Mailbox {
  let server: MailServer
  test.before('start the mail server', async () => {
    server = await startMailServer()
  })
  test.after.always('stop the mail server', () => server?.stop())
  const send = () =>
    sendDueMails(
      {
        db: api().db,
        mailer: smtpMailer({ ...server, secure: false, credentials: null }),
        from: { name: 'Berth', address: 'berth@example.org' },
        databaseUrl: '',
        log: pino({ level: 'silent' }),
        unqueued: mailedCodes(masterKey),
      },
      new AbortController().signal,
    )
  return () => ({
    async codeFor(address) {
      while ((await send()) > 0);
      const mails = server.received.map(readMail).filter(({ headers }) => headers.To === address)
      const code = /^ {4}([A-HJ-NP-Z2-9]{8})$/m.exec(mails.at(-1)?.text ?? '')?.[1]
      if (!code) throw new Error(`No mail with a code came to ${address}.`)
      return code
    },
  })
}
