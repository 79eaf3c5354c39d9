/** An outgoing mail: one recipient, plain text. */
export interface Mail {
  /** The Message-ID derives from this, so that a mail that is sent twice can be recognised. */
  id: string
  from: MailAddress
  /** One address. */
  to: string
  subject: string
  text: string
  language: string
  date: Date
}

interface MailAddress {
  name: string
  address: string
}

/** Sends mail. Sending one again is harmless: the receiver sees the same Message-ID. */
export interface Mailer {
  /**
   * Resolves once the receiver has accepted the mail. Rejects with `MailRefused` when it never will, with any other error when
   * a retry may succeed; also when the signal aborts.
   */
  send(mail: Mail, signal: AbortSignal): Promise<void>
}

export class MailRefused extends Error {
  override name = 'MailRefused'
}
