/** How mail is sent, from the configuration. */
export interface MailSettings {
  /** Null: mail is written into `folder` and never leaves the machine. */
  smtp: { host: string; port: number; secure: boolean; credentials: { user: string; pass: string } | null } | null
  folder: string
  from: { name: string; address: string }
}

interface MailEnvironment {
  url: string | undefined
  from: string | undefined
}

/** Reads `SMTP_URL` and `MAIL_FROM`. Throws an Error that names the setting without its password. */
export function mailSettings({ url, from }: MailEnvironment, folder: string, domain: string): MailSettings {
  if (url && !from) throw new Error('The setting MAIL_FROM is missing: SMTP_URL is set, and mail needs a sender.')
  return { smtp: url ? smtpServer(url) : null, folder, from: sender(from || `Berth <berth@${domain}>`) }
}

const defaultPorts: Record<string, number> = { 'smtp:': 587, 'smtps:': 465 }

function smtpServer(text: string): NonNullable<MailSettings['smtp']> {
  const url = URL.canParse(text) ? new URL(text) : null
  const port = defaultPorts[url?.protocol ?? '']
  if (!url?.hostname || !port)
    throw new Error('The setting SMTP_URL must be smtp://user:password@host:port, or smtps:// for TLS from the start.')
  const { hostname, username, password } = url
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port || port),
    secure: url.protocol === 'smtps:',
    credentials: username ? { user: decodeURIComponent(username), pass: decodeURIComponent(password) } : null,
  }
}

function sender(text: string): MailSettings['from'] {
  const [, name = '', bracketed, bare] =
    /^(?:([^<>\p{Cc}]*)<([^\s<>@,;]+@[^\s<>@,;]+)>|([^\s<>@,;]+@[^\s<>@,;]+))$/u.exec(text.trim()) ?? []
  const address = bracketed ?? bare
  if (!address) throw new Error(`The setting MAIL_FROM is "${text}"; it must be an address, or: Name <address>.`)
  return { name: name.trim(), address }
}

/** How mail is sent, as text without credentials. */
export function mailWay({ smtp, folder }: MailSettings): string {
  return smtp
    ? `${smtp.secure ? 'smtps' : 'smtp'}://${smtp.host}:${smtp.port}`
    : `files in ${folder} (no SMTP_URL is set)`
}
