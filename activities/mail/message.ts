import MailComposer from 'nodemailer/lib/mail-composer'
import { type Mail, MailRefused } from './port.ts'

/** One address as RFC 5321 has it without quoting, letters of every language included. */
const address = /^[^\s\p{Cc}<>()[\]\\,;:"@]+@[^\s\p{Cc}<>()[\]\\,;:"@]+$/u

/**
 * A mail as RFC 5322 writes it. Whatever stands in its fields, the headers are these and no others. Rejects with `MailRefused` when it is
 * not for exactly one address.
 */
export async function mailMessage({ id, date, from, to, subject, text, language }: Mail): Promise<Buffer> {
  if (!address.test(to)) throw new MailRefused('The account has no address that mail can go to.')
  const composer = new MailComposer({
    messageId: `<${id}@${from.address.split('@').at(-1)}>`,
    date,
    from: { name: oneLine(from.name), address: from.address },
    to: { name: '', address: to },
    subject: oneLine(subject),
    text: text.replaceAll(/\r\n?/g, '\n'),
    headers: { 'Content-Language': language, 'Auto-Submitted': 'auto-generated' },
    // Lines stay short and of plain letters, so that no server on the way has to change anything.
    encoding: 'quoted-printable',
    textEncoding: 'base64',
    newline: 'win',
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  return composer.compile().build()
}

const oneLine = (text: string): string => text.replaceAll(/\p{Cc}+/gu, ' ')
