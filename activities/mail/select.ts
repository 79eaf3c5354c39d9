import type { MailSettings } from '../../policy/mail/settings.ts'
import { folderMailer } from './folder.ts'
import type { Mailer } from './port.ts'
import { smtpMailer } from './smtp.ts'

/** The mailer that the configuration names. */
export function openMailer({ smtp, folder }: MailSettings): Mailer {
  return smtp ? smtpMailer(smtp) : folderMailer(folder)
}
