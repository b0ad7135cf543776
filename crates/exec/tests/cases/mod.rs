//! What each backend is held to: programs and streams on which it must agree with the interpreter.

pub(crate) mod bounds;
pub(crate) mod edges;
pub(crate) mod random;

use fairwater_exec::interp::Input;
use fairwater_lang::Program;

/// Runs a stream through the interpreter and another backend: what differs, if anything does. The
/// first program runs first; stages may switch to the others.
pub(crate) type Agree = fn(&[&Program], &[Input<'_, '_>]) -> Result<(), String>;

/// One test for each case, with this `Agree`, where this gate is not `None`.
macro_rules! hold_to_the_interpreter {
    ($agree:path, $gate:expr) => {
        $crate::cases::hold_to_the_interpreter!($agree, $gate,
            bounds::as_many_variables_as_there_may_be,
            bounds::one_expression_of_as_many_nodes_as_there_may_be,
            bounds::sums_of_choices_between_constants,
            bounds::expressions_as_deep_as_they_may_be,
            bounds::branches_as_deep_and_as_many_as_there_may_be,
            bounds::bodies_longer_than_a_short_jump,
            edges::every_operator_agrees_on_every_pair_of_edge_values,
            edges::every_operator_agrees_on_constants_at_the_edges,
            edges::the_average_agrees_for_every_kind_of_weight,
            edges::a_timer_agrees_whatever_it_is_set_to,
            edges::a_boolean_stored_in_a_number_agrees,
            edges::controls_beyond_belief_stop_the_program,
            edges::a_stage_sets_only_what_it_may,
            random::random_programs_agree,
            random::golden_programs_agree,
        );
    };
    ($agree:path, $gate:expr, $($room:ident::$case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                if $gate.is_some() {
                    $crate::cases::$room::$case($agree);
                }
            }
        )*
    };
}
pub(crate) use hold_to_the_interpreter;
