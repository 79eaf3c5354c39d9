import type { MailTemplate } from './template.ts'

/** A confirmed step to a lower plan that was no longer possible. */
export type DowngradeRefused = { from: string; to: string }

export const downgradeRefused: MailTemplate<DowngradeRefused> = {
  'pt-BR': ({ from, to }) => ({
    subject: `A mudança para o plano ${to} não foi feita`,
    text: `Você confirmou a mudança do plano ${from} para o plano ${to}, mas desde então a conta passou a usar mais do que ele oferece, ou o plano mudou.

Nada foi alterado. Quando couber, peça a mudança novamente.`,
  }),
  'en-US': ({ from, to }) => ({
    subject: `The change to plan ${to} was not made`,
    text: `You confirmed the change from plan ${from} to plan ${to}, but by now the account uses more than that plan allows, or its plan has changed.

Nothing was changed. Request the change again once the account fits into the plan.`,
  }),
  'es-ES': ({ from, to }) => ({
    subject: `El cambio al plan ${to} no se ha realizado`,
    text: `Has confirmado el cambio del plan ${from} al plan ${to}, pero desde entonces la cuenta usa más de lo que ofrece, o el plan ha cambiado.

No se ha modificado nada. Vuelve a pedir el cambio cuando sea posible.`,
  }),
  'zh-CN': ({ from, to }) => ({
    subject: `未能更换为 ${to} 套餐`,
    text: `您已确认将套餐从 ${from} 更换为 ${to}，但此后账户的用量超出了新套餐的额度，或者套餐已经变更。

没有做任何更改。条件满足后，请重新申请更换。`,
  }),
  'ja-JP': ({ from, to }) => ({
    subject: `プラン ${to} への変更は行われませんでした`,
    text: `プランを ${from} から ${to} に変更することを確認いただきましたが、その後、アカウントの使用量が上限を超えたか、プランが変わりました。

何も変更されていません。条件が整いましたら、もう一度変更をお申し込みください。`,
  }),
  'fr-FR': ({ from, to }) => ({
    subject: `Le passage à la formule ${to} n'a pas eu lieu`,
    text: `Vous avez confirmé le passage de la formule ${from} à la formule ${to}, mais depuis, le compte utilise plus que ce qu'elle offre, ou la formule a changé.

Rien n'a été modifié. Redemandez le changement dès qu'il sera possible.`,
  }),
  'de-DE': ({ from, to }) => ({
    subject: `Der Wechsel zum Tarif ${to} ist nicht erfolgt`,
    text: `Sie haben den Wechsel vom Tarif ${from} zum Tarif ${to} bestätigt, aber seither braucht das Konto mehr, als er bietet, oder der Tarif hat sich geändert.

Es wurde nichts geändert. Beantragen Sie den Wechsel erneut, sobald er möglich ist.`,
  }),
  'it-IT': ({ from, to }) => ({
    subject: `Il passaggio al piano ${to} non è avvenuto`,
    text: `Hai confermato il passaggio dal piano ${from} al piano ${to}, ma da allora l'account usa più di quanto esso offre, oppure il piano è cambiato.

Non è stato modificato nulla. Richiedi di nuovo il cambio quando sarà possibile.`,
  }),
}
