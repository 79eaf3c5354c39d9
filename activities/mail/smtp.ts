import SmtpConnection from 'nodemailer/lib/smtp-connection'
import { mailMessage } from './message.ts'
import { type Mailer, MailRefused } from './port.ts'

/** A server as `SMTP_URL` names it. */
export interface SmtpServer {
  host: string
  port: number
  /** TLS from the first byte; otherwise as soon as the server offers it. */
  secure: boolean
  credentials: { user: string; pass: string } | null
}

const silenceMs = 30_000
const loopback = /^(localhost|127\.\d+\.\d+\.\d+|::1)$/

/**
 * Sends by SMTP, with one connection per mail that ends with its signal. Credentials go to other machines only encrypted, and only
 * with a valid certificate; connections to the loopback cannot be intercepted, and certificates there are rarely valid.
 */
export function smtpMailer(server: SmtpServer): Mailer {
  return {
    async send(mail, signal) {
      const message = await mailMessage(mail)
      const envelope = { from: mail.from.address, to: [mail.to], size: message.length }
      try {
        await withConnection(server, signal, connection => step(done => connection.send(envelope, message, done)))
      } catch (error) {
        throw refusal(error) ?? error
      }
    },
  }
}

/** Signs in and disconnects. Rejects with the server's answer; `loginRefused` tells whether it was about the credentials. */
export const smtpLogin = (server: SmtpServer, signal: AbortSignal): Promise<void> =>
  withConnection(server, signal, async () => {})

/** Whether the server has answered and refused these credentials. */
export function loginRefused(error: unknown): boolean {
  const { responseCode, command } = error as { responseCode?: number; command?: string }
  return responseCode !== undefined && responseCode >= 500 && (command ?? '').startsWith('AUTH')
}

/** Runs work on one connection, signed in where there are credentials. */
async function withConnection(
  { host, port, secure, credentials }: SmtpServer,
  signal: AbortSignal,
  work: (connection: SmtpConnection) => Promise<void>,
): Promise<void> {
  const isLoopback = loopback.test(host)
  const options = {
    host,
    port,
    secure,
    ignoreTLS: isLoopback,
    requireTLS: credentials !== null && !isLoopback,
    connectionTimeout: silenceMs,
    greetingTimeout: silenceMs,
    socketTimeout: silenceMs,
    socketCloseTimeout: 1000,
  }
  signal.throwIfAborted()
  const connection = new SmtpConnection(options)
  const broken = new Promise<never>((_, reject) => {
    connection.on('error', reject)
    // The waiting step reports what the server answered before it disconnected.
    connection.once('end', () => setImmediate(() => reject(new Error('The mail server ended the connection.'))))
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
  const dialogue = async () => {
    await step(done => connection.connect(done))
    if (credentials) await step(done => connection.login({ credentials }, done))
    await work(connection)
  }
  try {
    await Promise.race([dialogue(), broken])
    connection.quit()
  } catch (error) {
    connection.close()
    throw error
  }
}

function step(run: (done: (error?: Error | null) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => run(error => (error ? reject(error) : resolve())))
}

/** A final answer about this mail or its recipient. One about our credentials or our sender is for the operator to fix. */
function refusal(error: unknown): MailRefused | null {
  const { responseCode, command, message } = error as { responseCode?: number; command?: string; message: string }
  const final = responseCode !== undefined && responseCode >= 500
  return final && (command === 'RCPT TO' || command === 'DATA') ? new MailRefused(message) : null
}
