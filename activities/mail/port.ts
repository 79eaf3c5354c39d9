/** A mail as it goes out: one person, plain text. */
export interface Mail {
  /** Its Message-ID derives from this, so that one that is sent twice can be told. */
  id: string
  from: MailAddress
  /** One address. */
  to: string
  subject: string
  text: string
  language: string
  date: Date
}

export interface MailAddress {
  name: string
  address: string
}

/** Where mail goes. Sending one again is harmless: the receiving side sees one Message-ID. */
export interface Mailer {
  /**
   * Resolves once the other side has taken the mail. Rejects with `MailRefused` when it never will, with any other error when
   * it may be tried again; also when the signal aborts.
   */
  send(mail: Mail, signal: AbortSignal): Promise<void>
}

export class MailRefused extends Error {
  override name = 'MailRefused'
}
