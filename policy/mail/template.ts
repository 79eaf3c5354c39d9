/** The languages that mail is written in (contract 3.4); an account may show any of them. */
export const mailLocales = ['pt-BR', 'en-US', 'es-ES', 'zh-CN', 'ja-JP', 'fr-FR', 'de-DE', 'it-IT'] as const

export type MailLocale = (typeof mailLocales)[number]

/** What a template may be filled with. Texts are strangers' input: they are made one harmless line first. */
export type MailFields = Record<string, string | number>

export interface MailText {
  subject: string
  text: string
}

/** One template: what is said in each language. A language that is missing, or a field that it does not have, does not compile. */
export type MailTemplate<Fields extends MailFields> = Record<MailLocale, (fields: Fields) => MailText>

/** A stored locale that mail is not written in is answered in English. */
export function mailLocaleOf(stored: string): MailLocale {
  return mailLocales.find(locale => locale === stored) ?? 'en-US'
}
