/** Languages of mail (contract 3.4); an account may have any of them. */
export const mailLocales = ['pt-BR', 'en-US', 'es-ES', 'zh-CN', 'ja-JP', 'fr-FR', 'de-DE', 'it-IT'] as const

export type MailLocale = (typeof mailLocales)[number]

/** Values of a template's fields. Strings may come from strangers: each is first made one harmless line. */
export type MailFields = Record<string, string | number>

export interface MailText {
  subject: string
  text: string
}

/** One template: a text in each language. A missing language, or a field that the template does not have, does not compile. */
export type MailTemplate<Fields extends MailFields> = Record<MailLocale, (fields: Fields) => MailText>

/** The language of mail for a stored locale; English when there is no mail in it. */
export function mailLocaleOf(stored: string): MailLocale {
  return mailLocales.find(locale => locale === stored) ?? 'en-US'
}
