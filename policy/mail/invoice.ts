import type { MailTemplate } from './template.ts'

/** An invoice of the billing system outside. `amount` has its currency, `dueOn` is a day as `2030-01-31`. */
export type Invoice = { number: string; amount: string; dueOn: string; url: string }

/** Maximum characters of an invoice's number, its amount, and its address. */
export const invoiceLengths = { number: 64, amount: 64, url: 1000 }

export const invoice: MailTemplate<Invoice> = {
  'pt-BR': ({ number, amount, dueOn, url }) => ({
    subject: `Sua fatura ${number}`,
    text: `Sua fatura ${number} está disponível.

Valor: ${amount}
Vencimento: ${dueOn}

Você pode vê-la aqui: ${url}

Se a fatura já foi paga, não é preciso fazer nada.`,
  }),
  'en-US': ({ number, amount, dueOn, url }) => ({
    subject: `Your invoice ${number}`,
    text: `Your invoice ${number} is ready.

Amount: ${amount}
Due on: ${dueOn}

You can view it here: ${url}

If you have already paid it, there is nothing to do.`,
  }),
  'es-ES': ({ number, amount, dueOn, url }) => ({
    subject: `Tu factura ${number}`,
    text: `Tu factura ${number} ya está disponible.

Importe: ${amount}
Fecha de vencimiento: ${dueOn}

Puedes verla aquí: ${url}

Si ya la has pagado, no tienes que hacer nada.`,
  }),
  'zh-CN': ({ number, amount, dueOn, url }) => ({
    subject: `您的账单 ${number}`,
    text: `您的账单 ${number} 已生成。

金额：${amount}
付款截止日期：${dueOn}

查看账单：${url}

如果您已付款，则无需任何操作。`,
  }),
  'ja-JP': ({ number, amount, dueOn, url }) => ({
    subject: `請求書 ${number} のお知らせ`,
    text: `請求書 ${number} が発行されました。

金額: ${amount}
お支払い期限: ${dueOn}

請求書はこちらでご確認いただけます: ${url}

すでにお支払い済みの場合、お手続きは不要です。`,
  }),
  'fr-FR': ({ number, amount, dueOn, url }) => ({
    subject: `Votre facture ${number}`,
    text: `Votre facture ${number} est disponible.

Montant : ${amount}
Date d'échéance : ${dueOn}

Vous pouvez la consulter ici : ${url}

Si vous l'avez déjà réglée, vous n'avez rien à faire.`,
  }),
  'de-DE': ({ number, amount, dueOn, url }) => ({
    subject: `Ihre Rechnung ${number}`,
    text: `Ihre Rechnung ${number} liegt bereit.

Betrag: ${amount}
Fällig am: ${dueOn}

Sie finden die Rechnung hier: ${url}

Falls Sie die Rechnung bereits bezahlt haben, müssen Sie nichts weiter tun.`,
  }),
  'it-IT': ({ number, amount, dueOn, url }) => ({
    subject: `La tua fattura ${number}`,
    text: `La tua fattura ${number} è disponibile.

Importo: ${amount}
Scadenza: ${dueOn}

Puoi consultarla qui: ${url}

Se l'hai già pagata, non devi fare altro.`,
  }),
}
