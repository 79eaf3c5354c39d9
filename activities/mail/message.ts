import MailComposer from 'nodemailer/lib/mail-composer'
import { type Mail, MailRefused } from './port.ts'

/** One unquoted address of RFC 5321, including letters of every language. */
const address = /^[^\s\p{Cc}<>()[\]\\,;:"@]+@[^\s\p{Cc}<>()[\]\\,;:"@]+$/u

/**
 * A mail in the format of RFC 5322. Its fields cannot add further headers. Rejects with `MailRefused` when it is not for exactly
 * one address.
 */
export async function mailMessage({ id, date, from, to, subject, text, language }: Mail): Promise<Buffer> {
  if (!address.test(to)) throw new MailRefused('The account has no valid mail address.')
  const composer = new MailComposer({
    messageId: `<${id}@${from.address.split('@').at(-1)}>`,
    date,
    from: { name: oneLine(from.name), address: from.address },
    to: { name: '', address: to },
    subject: oneLine(subject),
    text: text.replaceAll(/\r\n?/g, '\n'),
    headers: { 'Content-Language': language, 'Auto-Submitted': 'auto-generated' },
    // Short ASCII lines, so that no server on the way has to change anything.
    encoding: 'quoted-printable',
    textEncoding: 'base64',
    newline: 'win',
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  return composer.compile().build()
}

const oneLine = (text: string): string => text.replaceAll(/\p{Cc}+/gu, ' ')
