import { type Mail, MailRefused } from './port.ts'

/** One address as RFC 5321 has it without quoting, letters of every language included. */
const address = /^[^\s\p{Cc}<>()[\]\\,;:"@]+@[^\s\p{Cc}<>()[\]\\,;:"@]+$/u

/** The Message-ID of a mail, in the domain that it comes from. */
export const messageId = ({ id, from }: Mail): string => `<${id}@${from.address.split('@').at(-1)}>`

/**
 * A mail as RFC 5322 writes it. Whatever stands in its fields, the headers are these and no others. Throws `MailRefused` when it is
 * not for exactly one address.
 */
export function mailMessage(mail: Mail): string {
  if (!address.test(mail.to)) throw new MailRefused('The account has no address that mail can go to.')
  const headers = {
    'Message-ID': messageId(mail),
    Date: mail.date.toUTCString().replace('GMT', '+0000'),
    From: `${mail.from.name ? `${headerText(mail.from.name)} ` : ''}<${mail.from.address}>`,
    To: `<${mail.to}>`,
    Subject: headerText(mail.subject),
    'Content-Language': mail.language,
    'Auto-Submitted': 'auto-generated',
    'MIME-Version': '1.0',
    'Content-Type': 'text/plain; charset=utf-8',
    'Content-Transfer-Encoding': 'quoted-printable',
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${lines.join('')}\r\n${quotedPrintable(mail.text)}`
}

/** Bytes of one encoded word, such that a line of 76 characters holds it with what surrounds it and a header's name. */
const wordBytes = 39

/** Plain where letters of ASCII do and the line is short, else in encoded words (RFC 2047), none of which cuts a letter in two. */
function headerText(text: string): string {
  const line = text.replace(/\p{Cc}+/gu, ' ')
  if (/^[\x20-\x7e]{0,60}$/.test(line) && !/=\?|[<>",@;:()\\]/.test(line)) return line
  const words = ['']
  for (const letter of line) {
    const longer = words.at(-1) + letter
    if (Buffer.byteLength(longer) > wordBytes) words.push(letter)
    else words[words.length - 1] = longer
  }
  return words.map(word => `=?UTF-8?B?${Buffer.from(word).toString('base64')}?=`).join('\r\n ')
}

/** The rest where it is short enough, else up to the last space that is, else a piece that cuts no letter's code. */
const shortLines = /.{1,75}$|.{0,74} |(?:=..|[^=]){1,25}/g

/** RFC 2045: every line short and of plain letters, so that no server on the way has to change anything. */
function quotedPrintable(text: string): string {
  return text
    .split(/\r\n|\r|\n/)
    .map(line => {
      const pieces = [...Buffer.from(line)].map((byte, n, all) => {
        const plain = byte >= 33 && byte <= 126 && byte !== 61
        return plain || (byte === 32 && n < all.length - 1) ? String.fromCharCode(byte) : hex(byte)
      })
      return (pieces.join('').match(shortLines) ?? []).join('=\r\n')
    })
    .join('\r\n')
}

const hex = (byte: number): string => `=${byte.toString(16).toUpperCase().padStart(2, '0')}`
